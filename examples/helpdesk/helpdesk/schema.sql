-- The shop's own data. Dates are ISO text, money is cents.
CREATE TABLE products (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, category TEXT NOT NULL, cents INTEGER NOT NULL,
    warranty_months INTEGER NOT NULL, rating REAL NOT NULL, uses TEXT NOT NULL, description TEXT NOT NULL
);

CREATE TABLE stores (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, street TEXT NOT NULL, town TEXT NOT NULL, state TEXT NOT NULL,
    zip TEXT NOT NULL, phone TEXT NOT NULL
);
-- weekday: 0 is Monday. No row: closed that day.
CREATE TABLE hours (
    store_id TEXT NOT NULL REFERENCES stores, weekday INTEGER NOT NULL, opens TEXT NOT NULL, closes TEXT NOT NULL,
    PRIMARY KEY (store_id, weekday)
);
CREATE TABLE stock (
    store_id TEXT NOT NULL REFERENCES stores, product_id TEXT NOT NULL REFERENCES products, quantity INTEGER NOT NULL,
    PRIMARY KEY (store_id, product_id)
);

CREATE TABLE accounts (
    email TEXT PRIMARY KEY, name TEXT NOT NULL, street TEXT NOT NULL, town TEXT NOT NULL, state TEXT NOT NULL,
    zip TEXT NOT NULL, points INTEGER NOT NULL, password_hash TEXT NOT NULL, must_change INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE resets (
    id INTEGER PRIMARY KEY, email TEXT NOT NULL, code_hash TEXT NOT NULL, sent_at TEXT NOT NULL,
    wrong INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT 'open'
);
-- What a real shop would send by mail.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY, recipient TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL, sent_at TEXT NOT NULL
);

CREATE TABLE orders (
    id TEXT PRIMARY KEY, email TEXT NOT NULL REFERENCES accounts, placed_on TEXT NOT NULL, status TEXT NOT NULL,
    carrier TEXT, tracking TEXT, shipped_on TEXT, expected_on TEXT, delivered_on TEXT, payment TEXT NOT NULL
);
CREATE TABLE order_items (
    order_id TEXT NOT NULL REFERENCES orders, line INTEGER NOT NULL, product_id TEXT NOT NULL REFERENCES products,
    quantity INTEGER NOT NULL, cents INTEGER NOT NULL,
    PRIMARY KEY (order_id, line)
);
-- An item goes back once.
CREATE TABLE returns (
    id INTEGER PRIMARY KEY, order_id TEXT NOT NULL, line INTEGER NOT NULL, reason TEXT NOT NULL, note TEXT NOT NULL,
    way TEXT NOT NULL, receipt TEXT, created_on TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'announced',
    UNIQUE (order_id, line), FOREIGN KEY (order_id, line) REFERENCES order_items
);
CREATE TABLE refunds (
    id INTEGER PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders, cents INTEGER NOT NULL, status TEXT NOT NULL,
    requested_on TEXT NOT NULL, expected_on TEXT NOT NULL, method TEXT NOT NULL
);
CREATE TABLE claims (
    id INTEGER PRIMARY KEY, order_id TEXT NOT NULL, line INTEGER NOT NULL, fault TEXT NOT NULL, created_on TEXT NOT NULL,
    UNIQUE (order_id, line), FOREIGN KEY (order_id, line) REFERENCES order_items
);
CREATE TABLE gift_cards (number TEXT PRIMARY KEY, cents INTEGER NOT NULL, expires_on TEXT NOT NULL);

-- What people have to look at.
CREATE TABLE cases (
    id INTEGER PRIMARY KEY, email TEXT NOT NULL, topic TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE TABLE faq (topic TEXT PRIMARY KEY, question TEXT NOT NULL, answer TEXT NOT NULL);
