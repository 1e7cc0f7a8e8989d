"""What can be asked of our own API, and beside all protocols."""

from collections.abc import Mapping
from typing import Any

from whose_asked import OF_USER, STREAM, Asked, Routes, Things

_WAIT: Mapping[str, Any] = {"wait": True}
_INVOCATION = "/api/v1/sessions/{session_id}/invocations/{invocation_id}"
_ARTIFACT = "/api/v1/sessions/{session_id}/artifacts/{name}"
_MEMORIES = "/api/v1/users/{user_id}/memories"
_DECISION = "/api/v1/sessions/{session_id}/decisions/{sequence}"
_EXPERIMENT = "/api/v1/experiments/{experiment_name}"
_AGENT = "/api/v1/agents/{agent_name}"
_POLICY = "/api/v1/policies/{policy_name}"
# The app of these tests keeps no definitions: to those who may see them, there are none.
_READS = Asked("definitions:read", names="", ok=404)


def _writes(**body: Any) -> Asked:
    return Asked("definitions:write", lambda _: body, headers={"If-Match": "*"}, names="", ok=404)


def _labelled(things: Things) -> Any:
    place = {"user": things.user, "session_id": things.session, "sequence": things.sequence}
    return {"decisions": [place], "agent": "asker"}


ROUTES: Routes = {
    ("GET", "/openapi.json"): (Asked(None, names=""),),
    ("GET", "/docs"): (Asked(None, names=""),),
    ("GET", "/docs/start.js"): (Asked(None, names=""),),
    ("GET", "/docs/swagger-ui.css"): (Asked(None, names=""),),
    ("GET", "/docs/swagger-ui-bundle.js"): (Asked(None, names=""),),
    ("GET", "/api/v1/health"): (Asked(None, names=""),),
    ("GET", "/api/v1/ready"): (Asked(None, names=""),),
    ("GET", "/api/v1/version"): (Asked(None, names=""),),
    ("GET", "/"): (Asked(None, names="", headers={"Accept": "text/html"}, ok=307),),
    ("GET", "/console"): (Asked(None, names="", ok=307),),
    ("GET", "/console/{path}"): (Asked(None, names=""),),
    ("GET", "/api/v1/me"): (Asked("agents:read", names="", any_right=True),),
    ("GET", "/api/v1/policy"): (Asked("metrics:read", names=""),),
    ("GET", "/api/v1/operations"): (Asked("metrics:read", names=""),),
    ("GET", "/metrics"): (Asked("metrics:read", names=""),),
    ("GET", "/api/v1/agents"): (Asked("agents:read", names=""),),
    ("GET", "/api/v1/agents/{agent_name}"): (Asked("agents:read", names=""),),
    ("GET", f"{_AGENT}/plan"): (Asked("agents:read", names="", ok=404),),
    ("GET", "/api/v1/definitions/lint"): (Asked("definitions:read", names=""),),
    ("GET", "/api/v1/definitions/changes"): (_READS,),
    ("GET", "/api/v1/definitions/{kind}"): (_READS,),
    ("GET", f"{_AGENT}/versions"): (_READS,),
    ("GET", f"{_AGENT}/versions/{{version}}"): (_READS,),
    ("GET", _POLICY): (_READS,),
    ("POST", "/api/v1/agents"): (_writes(name="new"),),
    ("PUT", _AGENT): (_writes(),),
    ("PATCH", _AGENT): (_writes(),),
    ("DELETE", _AGENT): (_READS._replace(permission="definitions:write", headers={"If-Match": "*"}),),
    ("POST", f"{_AGENT}/activate"): (_writes(version=1),),
    ("POST", f"{_AGENT}/rollback"): (_writes(),),
    ("POST", f"{_AGENT}/examples"): (_writes(text="hi"),),
    ("POST", f"{_AGENT}/patterns"): (_writes(regex="hi"),),
    ("POST", f"{_AGENT}/try"): (_READS._replace(body=lambda _: {}),),
    ("POST", f"{_POLICY}/try"): (_READS._replace(body=lambda _: {}),),
    ("GET", f"{_POLICY}/versions"): (_READS,),
    ("GET", f"{_POLICY}/versions/{{version}}"): (_READS,),
    ("PATCH", _POLICY): (_writes(),),
    ("DELETE", _POLICY): (_READS._replace(permission="definitions:write", headers={"If-Match": "*"}),),
    ("POST", f"{_POLICY}/activate"): (_writes(version=1),),
    ("PUT", _POLICY): (_writes(policy="default"),),
    ("POST", f"{_POLICY}/rollback"): (_writes(),),
    ("POST", "/api/v1/sessions"): (
        Asked("sessions:write", lambda t: {"id": t.new, "state": {"a": 1}}, ok=201),
        Asked("sessions:write", lambda t: {"id": t.session}, ok=409),
    ),
    ("GET", "/api/v1/sessions"): (Asked("sessions:read"),),
    ("GET", "/api/v1/recent-sessions"): (Asked("sessions:read"),),
    ("GET", "/api/v1/sessions/{session_id}"): (Asked("sessions:read"),),
    ("GET", "/api/v1/sessions/{session_id}/events"): (Asked("sessions:read"), Asked("sessions:read", query={"last": 3})),
    ("GET", "/api/v1/sessions/{session_id}/state"): (Asked("sessions:read"),),
    ("PATCH", "/api/v1/sessions/{session_id}/state"): (Asked("sessions:write", lambda _: {"state": {"b": 2}}),),
    ("POST", "/api/v1/sessions/{session_id}/rewind"): (Asked("sessions:write", lambda t: {"invocation_id": t.invocation}),),
    ("POST", "/api/v1/sessions/{session_id}/fork"): (
        Asked("sessions:write", lambda t: {"id": t.new}, ok=201),
        Asked("sessions:write", lambda t: {"before_invocation_id": t.invocation}, ok=201),
    ),
    ("DELETE", "/api/v1/sessions/{session_id}"): (Asked("sessions:write", ok=204),),
    ("DELETE", "/api/v1/users/{user_id}"): (Asked("sessions:write", names="path", ok=204),),
    ("GET", _MEMORIES): (Asked("memories:read", names="path"), Asked("memories:read", names="path", query={"kind": "fact"})),
    ("POST", _MEMORIES): (Asked("memories:write", lambda t: {"text": "Likes tea.", "id": t.new}, names="path", ok=201),),
    ("POST", f"{_MEMORIES}/search"): (Asked("memories:read", lambda _: {"query": "tea"}, names="path"),),
    ("GET", f"{_MEMORIES}/{{memory_id}}"): (Asked("memories:read", names="path", ok=404),),
    ("DELETE", _MEMORIES): (Asked("memories:write", names="path", query={"id": "nothing"}),),
    ("GET", "/api/v1/users/{user_id}/export"): (Asked("sessions:read", names="path"),),
    ("POST", "/api/v1/sessions/{session_id}/messages"): (
        Asked("messages:write", lambda t: {"content": "hi", "id": t.message}),
        Asked("messages:write", lambda _: {"content": "hi"}, headers=STREAM),
    ),
    ("GET", "/api/v1/sessions/{session_id}/messages/{message_id}"): (
        Asked("sessions:read"),
        Asked("sessions:read", query=_WAIT),
        Asked("sessions:read", headers=STREAM),
    ),
    ("POST", "/api/v1/select"): (Asked("sessions:read", lambda t: {"content": "hi", "session_id": t.session}),),
    ("GET", _INVOCATION): (Asked("sessions:read"), Asked("sessions:read", query=_WAIT)),
    ("GET", f"{_INVOCATION}/events"): (Asked("sessions:read"), Asked("sessions:read", headers=STREAM)),
    ("POST", f"{_INVOCATION}/cancel"): (Asked("invocations:cancel"),),
    ("POST", f"{_INVOCATION}/answer"): (Asked("messages:write", lambda t: {"call_id": t.call, "text": "this"}),),
    ("POST", f"{_INVOCATION}/regenerate"): (Asked("messages:write"),),
    ("GET", "/api/v1/sessions/{session_id}/artifacts"): (
        Asked("artifacts:read"),
        Asked("artifacts:read", query={"name": OF_USER}),
    ),
    ("PUT", _ARTIFACT): (Asked("artifacts:write", lambda _: b"other bytes", ok=201),),
    ("GET", _ARTIFACT): (Asked("artifacts:read"),),
    ("HEAD", _ARTIFACT): (Asked("artifacts:read"),),
    ("DELETE", _ARTIFACT): (Asked("artifacts:write", ok=204),),
    ("GET", "/api/v1/decisions"): (Asked("decisions:read", everybody=True),),
    ("GET", "/api/v1/decision-counts"): (Asked("decisions:read", everybody=True),),
    ("GET", "/api/v1/decision-stream"): (Asked("decisions:read", everybody=True, endless=True),),
    ("GET", _DECISION): (Asked("decisions:read"),),
    ("PUT", f"{_DECISION}/claim"): (Asked("decisions:label"),),
    ("DELETE", f"{_DECISION}/claim"): (Asked("decisions:label", ok=204),),
    ("GET", f"{_DECISION}/labels"): (Asked("decisions:label"),),
    ("GET", f"{_DECISION}/signals"): (Asked("decisions:label"),),
    ("GET", "/api/v1/review-queue"): (Asked("decisions:label", names=""),),
    ("GET", "/api/v1/decision-report"): (Asked("decisions:label", names=""),),
    ("GET", "/api/v1/evaluations"): (Asked("decisions:label", names=""),),
    ("GET", "/api/v1/experiments"): (Asked("definitions:read", names=""),),
    ("POST", "/api/v1/experiments"): (_writes(name="n", arms=[{"name": "a"}, {"name": "b", "policy": "p"}])._replace(ok=422),),
    ("GET", "/api/v1/shadow"): (Asked("definitions:read", names=""),),
    ("GET", _EXPERIMENT): (_READS,),
    ("POST", f"{_EXPERIMENT}/promote"): (_writes(arm="a"),),
    ("POST", f"{_EXPERIMENT}/rollback"): (_writes(),),
    ("POST", f"{_EXPERIMENT}/stop"): (_READS._replace(permission="definitions:write"),),
    ("POST", "/api/v1/decision-labels"): (Asked("decisions:label", _labelled, names="", ok=204),),
    ("PUT", f"{_DECISION}/label"): (Asked("decisions:label", lambda _: {"agent": "asker"}, ok=204),),
    ("POST", f"{_DECISION}/feedback"): (Asked("messages:write", lambda _: {"rating": "up"}, ok=204),),
    ("GET", "/api/v1/holds"): (Asked("audit:read", everybody=True),),
    ("POST", "/api/v1/holds"): (Asked("holds:write", lambda _: {"user": "held", "reason": "x"}, names="", ok=201),),
    ("DELETE", "/api/v1/holds/{hold_id}"): (Asked("holds:write", names="", ok=404),),
    ("GET", "/api/v1/audit"): (Asked("audit:read", everybody=True),),
}
