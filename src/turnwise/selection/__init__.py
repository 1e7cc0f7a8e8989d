"""Selection: who answers next. Policies, the selectors that ship, and what a selector of your own needs."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.facts.selections import (
        Candidate as Candidate,
        Exclusion as Exclusion,
        Selection as Selection,
        Verdict as Verdict,
    )
    from turnwise.ports.experiments import Arm as Arm, Experiment as Experiment
    from turnwise.ports.selector import SelectionRequest as SelectionRequest, Selector as Selector
    from turnwise.selection.cascade import Cascade as Cascade
    from turnwise.selection.clarify import Clarify as Clarify
    from turnwise.selection.contextual.selector import Contextual as Contextual
    from turnwise.selection.conversational import Conversational as Conversational
    from turnwise.selection.fixed import Default as Default, Direct as Direct, Identity as Identity, Iterative as Iterative
    from turnwise.selection.model import ModelSelector as ModelSelector
    from turnwise.selection.named import named_policy as named_policy
    from turnwise.selection.patterns import Patterns as Patterns
    from turnwise.selection.policy import (
        PolicySpec as PolicySpec,
        SegmentSpec as SegmentSpec,
        StageSpec as StageSpec,
        policy_from as policy_from,
    )
    from turnwise.selection.resume import Resume as Resume
    from turnwise.selection.semantic import Semantic as Semantic, SmallTalkSelector as SmallTalkSelector

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.ports.experiments": "Arm Experiment",
        "turnwise.facts.selections": "Candidate Exclusion Selection Verdict",
        "turnwise.ports.selector": "SelectionRequest Selector",
        "turnwise.selection.cascade": "Cascade",
        "turnwise.selection.clarify": "Clarify",
        "turnwise.selection.contextual.selector": "Contextual",
        "turnwise.selection.conversational": "Conversational",
        "turnwise.selection.fixed": "Default Direct Identity Iterative",
        "turnwise.selection.model": "ModelSelector",
        "turnwise.selection.named": "named_policy",
        "turnwise.selection.patterns": "Patterns",
        "turnwise.selection.policy": "PolicySpec SegmentSpec StageSpec policy_from",
        "turnwise.selection.resume": "Resume",
        "turnwise.selection.semantic": "Semantic SmallTalkSelector",
    },
)
