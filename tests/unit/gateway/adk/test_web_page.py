"""The page's first file, made to need nothing from elsewhere."""

from turnwise.gateway.adk.development import POLICY, self_contained


def test_what_is_elsewhere_is_taken_out() -> None:
    page = (
        '<head><link rel="preconnect" href="https://a.example" crossorigin><link rel="icon" href="icon.svg">'
        "<style>@font-face{font-family:'A';src:url(https://a.example/x.woff2) format('woff2');unicode-range:U+0-1}"
        "@font-face {src: url('http://a.example/y')}.a{b:c}@font-face{src:url(own.woff2)}</style>"
        '<link rel="stylesheet" href="./s.css" media="print" onload="this.media=\'all\'"></head>'
    )
    made = self_contained(page)
    assert "a.example" not in made
    assert "onload" not in made
    for kept in ('<link rel="icon" href="icon.svg">', ".a{b:c}@font-face{src:url(own.woff2)}", 'href="./s.css">'):
        assert kept in made
    assert made.endswith("</style></head>")


def test_a_browser_loads_nothing_from_elsewhere() -> None:
    allowed = {word for directive in POLICY.split("; ") for word in directive.split()[1:]}
    assert allowed == {"'none'", "'self'", "'unsafe-inline'", "'wasm-unsafe-eval'", "data:", "blob:"}
    assert "script-src 'self' 'wasm-unsafe-eval'" in POLICY
