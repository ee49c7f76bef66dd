import { Ajv } from "ajv";
import type { ErrorObject, ValidateFunction } from "ajv";
import { parse } from "qs";
import type { RequestTypes } from "./requestTypes.ts";
import schemas from "./requestSchemas.json" with { type: "json" };
import { invalid } from "../errorResponse.ts";
import type { ErrorResponse } from "../errorResponse.ts";

type RequestName = keyof RequestTypes;

// Forms contain only strings, so values are converted, as Stripe does.
const ajv = new Ajv({ strict: false, allErrors: true, coerceTypes: true });
const validators = new Map<string, ValidateFunction>(
  Object.entries(schemas).map(([name, schema]) => [name, ajv.compile(schema)]),
);

/** Converts a JSON pointer to Stripe's notation: `/items/0/price` becomes `items[0][price]`. */
const parameterName = (path: string, last = ""): string => {
  const [first = "", ...rest] = [...path.split("/").slice(1), ...(last ? [last] : [])];
  return first + rest.map((part) => `[${part}]`).join("");
};

const errorResponseOf = ({
  keyword,
  instancePath,
  params,
  message,
}: ErrorObject): ErrorResponse => {
  if (keyword === "additionalProperties") {
    const name = parameterName(instancePath, String(params["additionalProperty"]));
    return invalid(`Received unknown parameter: ${name}`, "parameter_unknown", name);
  }
  if (keyword === "required") {
    const name = parameterName(instancePath, String(params["missingProperty"]));
    return invalid(`Missing required param: ${name}.`, "parameter_missing", name);
  }
  const name = parameterName(instancePath);
  return invalid(`Invalid ${name}: ${message ?? keyword}`, undefined, name);
};

/**
 * Parses a form and checks it against the SDK's own type of the call.
 * @throws ErrorResponse a 400
 */
export const parseRequest = <Name extends RequestName>(
  name: Name,
  form: string,
): RequestTypes[Name] => {
  const parameters = parse(form, { depth: 10, parameterLimit: 1000, arrayLimit: 100 });
  const validate = validators.get(name);
  if (!validate) {
    throw new Error(`requestSchemas.json has no schema for ${name}.`);
  }
  if (!validate(parameters)) {
    const [first] = validate.errors ?? [];
    throw first ? errorResponseOf(first) : invalid("The parameters are invalid.");
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the schema is derived from this type
  return parameters as RequestTypes[Name];
};
