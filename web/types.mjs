// Makes TypeScript of the reports' schemas: a module per schema, "prony/profile" of
// docs/prony.profile.schema.json, with an interface per record.

const pascal = (text) => text.replace(/(^|[-_])(\w)/g, (_, before, letter) => letter.toUpperCase());

function scalar(type) {
  return { string: "string", number: "number", integer: "number", boolean: "boolean", null: "null" }[type];
}

function typeOf(schema, indent) {
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.$ref) return pascal(schema.$ref.split("/").pop());
  if (schema.anyOf) return schema.anyOf.map((one) => typeOf(one, indent)).join(" | ");
  const types = [schema.type ?? []].flat().map((type) => {
    if (type === "array") return `Array<${typeOf(schema.items ?? {}, indent)}>`;
    if (type === "object") return members(schema, indent);
    return scalar(type);
  });
  return types.length ? types.join(" | ") : "unknown";
}

function members(schema, indent) {
  const inner = `${indent}  `;
  const required = new Set(schema.required);
  const lines = Object.entries(schema.properties ?? {}).map(([key, value]) => {
    const comment = value.description ? `${inner}/** ${value.description.replaceAll("*/", "* /")} */\n` : "";
    return `${comment}${inner}${key}${required.has(key) ? "" : "?"}: ${typeOf(value, inner)};\n`;
  });
  return `{\n${lines.join("")}${indent}}`;
}

function moduleOf(schema) {
  const name = schema.title.replace(/^prony\.|\/\d+$/g, "");
  const records = { ...schema.$defs, [pascal(name)]: schema };
  const interfaces = Object.entries(records).map(
    ([record, value]) => `  export interface ${pascal(record)} ${members(value, "  ")}\n`,
  );
  return `declare module "prony/${name}" {\n${interfaces.join("")}}\n`;
}

export function types(schemas) {
  return `// Made by web/types.mjs of docs/*.schema.json.\n${schemas.map(moduleOf).join("")}`;
}
