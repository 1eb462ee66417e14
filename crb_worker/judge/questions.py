"""A question to the model: the parameters of a request, and the one repair of an answer that cannot be used.

A cut-off, malformed, incomplete or out-of-range answer is asked for once more. Then the judgment fails, visibly: it is
never "no match".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from crb_core.corpus import fingerprint
from crb_core.errors import CrbError, InputError
from crb_core.formats.strict_json import load_json
from crb_core.prompts import PromptSet, filled
from crb_worker.judge.calls import Asker
from crb_worker.judge.requests import ModelAnswer, ModelRequest

__all__ = [
    "AnswerError",
    "AnswerModel",
    "ModelParameters",
    "Reason",
    "UnusableError",
    "answer_schema",
    "decoded",
    "repaired",
    "settled",
]

#: Format of the hashed content; a change of how requests are made is another one.
FORMAT = "crb.judge-request/1"
#: Most tokens of an answer after it was cut off once; the models' own limit is above it.
_MAX_TOKENS_LIMIT = 64_000
_MAX_PROBLEMS = 20
_MAX_ANSWER_BYTES = 4 * 1024 * 1024
#: Longest sentence of an answer, in characters. It is stored and shown with every label and match.
_MAX_REASON = 20_000

_NOT_ALLOWED = {"title", "description", "default", "properties", "minLength"}

T = TypeVar("T", bound=BaseModel)
V = TypeVar("V")


class AnswerError(CrbError):
    """The model gave no usable answer, also not when asked again."""


class UnusableError(Exception):
    """What is wrong with an answer, in sentences that may be sent to the model. ``cut``: it was cut off."""

    def __init__(self, problems: Sequence[str], *, cut: bool = False) -> None:
        super().__init__(" ".join(problems[:_MAX_PROBLEMS]))
        self.problems = list(problems[:_MAX_PROBLEMS])
        self.cut = cut


def _worded(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    if len(text) > _MAX_REASON:
        raise ValueError(f"it has {len(text)} characters, at most {_MAX_REASON} are kept")
    return text


#: A sentence of an answer: not blank, and of a length that a person can read.
Reason = Annotated[str, Field(min_length=1), AfterValidator(_worded)]


class AnswerModel(BaseModel):
    """An answer's shape: unknown and missing fields are refused, nothing is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


@dataclass(frozen=True, kw_only=True)
class ModelParameters:
    """What every request of one task says. ``effort`` None leaves it to the model."""

    model: str
    max_tokens: int
    effort: str | None

    def describe(self) -> dict[str, Any]:
        return {"model": self.model, "max_tokens": self.max_tokens, "effort": self.effort}

    def body(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The parts of a request that the parameters decide."""
        output: dict[str, Any] = {"format": {"type": "json_schema", "schema": schema}}
        if self.effort is not None:
            output["effort"] = self.effort
        return {"model": self.model, "max_tokens": self.max_tokens, "output_config": output}


def answer_schema(model: type[AnswerModel], enums: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """The JSON schema of an answer, within what structured output allows; ``enums`` restrict text fields by name."""
    schema: dict[str, Any] = _plain(model.model_json_schema(), enums or {})
    return schema


def decoded(answer: ModelAnswer, model: type[T]) -> T:
    """The answer's JSON as a record. Raises UnusableError for anything that is not exactly that, AnswerError for a

    refusal and for a request that is larger than the model's context.
    """
    reason = answer.stop_reason
    if reason == "refusal":
        details = answer.message.get("stop_details")
        category = details.get("category") if isinstance(details, dict) else None
        raise AnswerError(f"the model refused to answer{f' ({category})' if isinstance(category, str) else ''}")
    if reason == "model_context_window_exceeded":
        raise AnswerError("the request is larger than the model's context window")
    if reason == "max_tokens":
        raise UnusableError(["It was cut off before it was complete."], cut=True)
    text = answer.text.strip()
    if not text:
        raise UnusableError(["It holds no text."])
    try:
        value = load_json(text.encode("utf-8", "surrogatepass"), "the answer", max_bytes=_MAX_ANSWER_BYTES)
    except InputError as error:
        raise UnusableError([f"It is not one JSON value: {error.problem}."]) from None
    if _holds_nul(value):
        raise UnusableError(["It holds a NUL character, which no text can keep."])
    try:
        # Through JSON, so that enumerations are read strictly and yet from text.
        return model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        problems = []
        for detail in error.errors(include_url=False, include_context=False, include_input=False):
            field = ".".join(str(part) if isinstance(part, int) else str(part)[:60] for part in detail["loc"])
            problems.append(f"{field or 'The answer'}: {detail['msg']}.")
        raise UnusableError(problems) from None


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in name or _holds_nul(each) for name, each in value.items())
    return isinstance(value, list) and any(map(_holds_nul, value))


def settled(
    asker: Asker,
    request: ModelRequest,
    decode: Callable[[ModelAnswer], V],
    prompts: PromptSet,
    *,
    asked: ModelAnswer | None = None,
    repair: bool = True,
) -> V:
    """The decoded answer to a request; asked once more if it cannot be used, then an AnswerError.

    ``asked`` is the answer where the caller already has it; ``repair`` is False where it is the second one.
    """
    first = asked or asker.ask(request)
    answers = [first]
    try:
        try:
            return decode(first)
        except UnusableError as unusable:
            if not repair:
                raise
            second = asker.ask(repaired(request, first, unusable, prompts))
            answers.append(second)
            return decode(second)
    except (UnusableError, AnswerError) as error:
        said = (
            f"the answer is still wrong after one repair: {error}"
            if isinstance(error, UnusableError)
            else error.problem
        )
        asker.reject(answers, said)
        raise AnswerError(
            f"No judgment: {said} ({request.label}, request {request.request_hash})",
            remedy="Retry the judgment; the answers are kept as evidence",
        ) from None


def repaired(request: ModelRequest, answer: ModelAnswer, problem: UnusableError, prompts: PromptSet) -> ModelRequest:
    """The one further question after an unusable answer: with more room where it was cut off, else with its faults."""
    body = dict(request.body)
    if problem.cut:
        body["max_tokens"] = min(2 * request.max_tokens, _MAX_TOKENS_LIMIT)
    else:
        note = filled(prompts["repair"], problems="\n".join(f"- {each}" for each in problem.problems))
        messages = list(body["messages"])
        if said := answer.said_again(with_tools=False):
            messages.append({"role": "assistant", "content": said})
        messages.append({"role": "user", "content": [{"type": "text", "text": note}]})
        body["messages"] = messages
        if "tools" in body:
            body["tool_choice"] = {"type": "none"}
        # Ids are random and must not enter the hash, so of the problems only their number does.
    content = {
        "format": FORMAT,
        "repairs": request.request_hash,
        "answer": fingerprint(answer.message.get("content")),
        "cut": problem.cut,
    }
    return replace(request, content=content, body=body, label=f"{request.label}, asked again")


def _plain(schema: Any, enums: Mapping[str, Sequence[str]]) -> Any:
    """Without what structured output does not allow; every property required. The model class checks lengths."""
    if isinstance(schema, list):
        return [_plain(each, enums) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _plain(value, enums) for key, value in schema.items() if key not in _NOT_ALLOWED}
    if "properties" in schema:
        plain["properties"] = {
            name: {**_plain(value, enums), "enum": list(enums[name])} if name in enums else _plain(value, enums)
            for name, value in schema["properties"].items()
        }
        plain["required"] = list(schema["properties"])
    return plain
