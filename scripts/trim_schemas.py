"""Makes tests/deploy/schemas.json: of Kubernetes' schemas, what tests of deploy/ look at.

    trim_schemas.py SWAGGER.json CRD.yaml...

Whole they have megabytes. Kept is what the rendered charts and the recipe use, and beside it
the names that they might use; what a name stands for that nothing uses is left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests" / "deploy"
KEPT = ("type", "enum", "pattern", "minimum", "maximum", "minLength", "minItems", "required")

Schema = dict[str, Any]


class Schemas:
    """The schemas of kinds of objects, whole."""

    def __init__(self, swagger: Path, crds: list[Path]) -> None:
        self._definitions = json.loads(swagger.read_text(encoding="utf-8"))["definitions"]
        self._kinds: dict[tuple[str, str], Schema] = {}
        for definition in self._definitions.values():
            for kind in definition.get("x-kubernetes-group-version-kind", ()):
                version = "/".join(filter(None, (kind["group"], kind["version"])))
                self._kinds[version, kind["kind"]] = definition
        for path in crds:
            self._add(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader))

    def _add(self, crd: Schema) -> None:
        spec = crd["spec"]
        for version in spec["versions"]:
            name = f"{spec['group']}/{version['name']}"
            schema = version["schema"]["openAPIV3Schema"]
            # The server knows what `metadata` is.
            schema["properties"]["metadata"] = {
                "$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
            }
            self._kinds[name, spec["names"]["kind"]] = schema

    def of(self, version: str, kind: str, objects: list[Schema]) -> Schema:
        """What `objects`, which are all of that kind, use of its schema."""
        return self._trimmed(self._kinds[version, kind], objects)

    def _trimmed(self, schema: Schema, values: list[Any]) -> Schema:
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].removeprefix("#/definitions/")]
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return {"type": ["integer", "string"]}
        kept = {name: schema[name] for name in KEPT if name in schema}
        if "properties" in schema:
            return kept | self._with_names(schema, values)
        if isinstance(schema.get("additionalProperties"), dict):
            inner = [value for one in values for value in one.values()]
            kept["additionalProperties"] = self._trimmed(schema["additionalProperties"], inner)
        if "items" in schema:
            kept["items"] = self._trimmed(
                schema["items"], [one for many in values for one in many]
            )
        return kept

    def _with_names(self, schema: Schema, values: list[Any]) -> Schema:
        properties = {}
        for name, inner in sorted(schema["properties"].items()):
            used = [one[name] for one in values if name in one]
            properties[name] = self._trimmed(inner, used) if used else {}
        open_ended = schema.get("x-kubernetes-preserve-unknown-fields", False)
        return {"properties": properties, "additionalProperties": open_ended}


def objects_in(paths: list[Path]) -> list[Schema]:
    """The objects in files of YAML."""
    texts = (path.read_text(encoding="utf-8") for path in paths)
    return [one for text in texts for one in yaml.safe_load_all(text) if one is not None]


def main() -> None:
    swagger, *crds = map(Path, sys.argv[1:])
    schemas = Schemas(swagger, crds)
    recipes = ROOT / "deploy" / "strimzi"
    found = objects_in([*TESTS.glob("rendered/*.yaml"), *recipes.glob("*.yaml")])
    kinds = sorted({(one["apiVersion"], one["kind"]) for one in found})
    made = {
        f"{version} {kind}": schemas.of(
            version,
            kind,
            [one for one in found if (one["apiVersion"], one["kind"]) == (version, kind)],
        )
        for version, kind in kinds
    }
    text = json.dumps(made, indent=1, sort_keys=True)
    (TESTS / "schemas.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
