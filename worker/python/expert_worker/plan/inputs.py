"""What a run is made of, by digest. The CLI takes the digests; a null is unknown and never "the same"."""

from expert_worker.document import Document


class Code(Document):
    version: str
    worker: str | None
    native: str | None


class Inputs(Document):
    recipe: str
    data: dict[str, str]
    base: str | None
    tokenizer: str | None
    template: str
    code: Code
