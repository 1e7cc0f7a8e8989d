"""The plan of a flow, and what lint finds, over the REST API."""

from gateway_play import Served, key_for, served

from turnwise import Flow, PolicySpec, Runner, SqlSessionStore, Task, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.flows.planned import PlannedFlow
from turnwise.selection import policy_from

LOCKED = GatewayConfig(auth=AuthConfig())


def shop(*, secret: bool = False, policy: str | PolicySpec = "staples") -> Runner:
    """A desk with a flow of two tasks, a flow that plans its runs, and two agents that share an example."""

    @agent(examples=["Where is my parcel?"])
    def finder(message: str) -> str:
        return "found"

    @agent(examples=["Where is my parcel?"], roles=["staff"] if secret else [])
    def writer(message: str) -> str:
        return "written"

    facts = Task("facts", "Find facts <b>about</b> it.", agents=[finder])
    paper = Flow("paper", [facts, Task("article", "Write it.", agents=[writer], depends_on=[facts], run_if="always")])
    planned = PlannedFlow("planned", planner="finder", agents=["finder"])

    @agent(children=[paper, planned])
    def desk(message: str) -> str:
        return message

    return Runner(desk, store=SqlSessionStore("sqlite://"), policy=policy)


async def test_a_flow_shows_its_tasks_and_a_drawing() -> None:
    """D10"""
    runner = shop()
    async with served(runner) as client:
        plan = (await client.get("/api/v1/agents/paper/plan")).json()
        assert [(each["name"], each["agents"], each["needs"]) for each in plan["tasks"]] == [
            ("facts", ["finder"], []),
            ("article", ["writer"], ["facts"]),
        ]
        assert plan["tasks"][1]["run_if"] == "always"
        assert plan["drawing"].startswith("<svg ")
        assert "<b>" not in plan["drawing"]
        assert (await client.get("/api/v1/agents/planned/plan")).json() == {"flow": "planned", "tasks": None, "drawing": None}
        for name in ("desk", "nobody"):
            answer = await client.get(f"/api/v1/agents/{name}/plan")
            assert (answer.status_code, answer.json()["code"]) == (404, "request.nothing_here")
    await runner.close()


async def test_agents_that_the_caller_may_not_use_are_in_no_plan() -> None:
    """K1"""
    runner = shop(secret=True)
    async with served(runner, LOCKED) as client:
        user = await key_for(runner, user="ann")
        plan = (await client.get("/api/v1/agents/paper/plan", headers=user)).json()
        assert [each["agents"] for each in plan["tasks"]] == [["finder"], []]
        assert plan["drawing"] is None
    await runner.close()


async def _codes(client: Served, key: dict[str, str]) -> tuple[int, set[str]]:
    answer = await client.get("/api/v1/definitions/lint", headers=key)
    return answer.status_code, {each["code"] for each in answer.json().get("findings", ())}


async def test_operators_see_what_lint_finds() -> None:
    """E6"""
    runner = shop()
    async with served(runner, LOCKED) as client:
        assert await _codes(client, await key_for(runner, user="ann")) == (403, set())
        status, codes = await _codes(client, await key_for(runner, role="operator", user="olga"))
        assert status == 200
        assert "example.shared" in codes
        admin = await key_for(runner, role="admin", user="adam")
        report = (await client.get("/api/v1/definitions/lint", headers=admin)).json()
        assert (report["agents"], report["by_meaning"]) == (5, True)
        assert {"finder", "writer"} in [set(each["agents"]) for each in report["findings"]]
    await runner.close()


async def test_without_a_stage_that_compares_meaning_examples_are_compared_by_their_words() -> None:
    runner = shop(policy=policy_from({"stages": ["patterns"]}))
    async with served(runner) as client:
        report = (await client.get("/api/v1/definitions/lint")).json()
        assert not report["by_meaning"]
        assert "example.shared" in {each["code"] for each in report["findings"]}
    await runner.close()
