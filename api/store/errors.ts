import { z } from "zod";
import type { PresentError } from "../../program/startServer.ts";
import { HttpError } from "../http/httpError.ts";
import type { ErrorResponse } from "../http/endpoint.ts";

export const errorBody = z
  .strictObject({
    error: z.string(),
    code: z.enum([
      "UNAUTHORIZED",
      "WRONG_KEY_TYPE",
      "INVALID_KEY",
      "INVALID_SHOP",
      "INSUFFICIENT_BUDGET",
      "INVALID_PARAMETER",
      "FEATURE_DISABLED",
      "NOT_FOUND",
      "METHOD_NOT_ALLOWED",
      "PAYLOAD_TOO_LARGE",
      "OVERLOADED",
      "INTERNAL_ERROR",
    ]),
  })
  .meta({ id: "Error" });

type ErrorBody = z.output<typeof errorBody>;
type Code = ErrorBody["code"];

const CODE_OF_STATUS: Readonly<Record<number, Code>> = {
  401: "UNAUTHORIZED",
  402: "INSUFFICIENT_BUDGET",
  403: "FEATURE_DISABLED",
  404: "NOT_FOUND",
  405: "METHOD_NOT_ALLOWED",
  413: "PAYLOAD_TOO_LARGE",
  500: "INTERNAL_ERROR",
  503: "OVERLOADED",
};

/** An error as this interface tells it: the code says which one, the message is for people. */
export const presentStoreError: PresentError = (status, error, code) => ({
  error,
  code: code ?? CODE_OF_STATUS[status] ?? "INVALID_PARAMETER",
});

/** A 401 that says why. */
export const unauthorized = (code: Code, message: string): HttpError =>
  new HttpError(401, message, { code });

export const KEY_ERROR: ErrorResponse = {
  status: 401,
  when:
    "`UNAUTHORIZED`: api_key is missing, or both shop_name and user_id. `WRONG_KEY_TYPE`: the key is one of the " +
    "standalone interface. `INVALID_SHOP`: the store is unknown or uninstalled. `INVALID_KEY`: the key is not this store's.",
  example: "the header api_key is missing",
};

export const BUDGET_ERROR: ErrorResponse = {
  status: 402,
  when: "The balance does not cover it; nothing was recorded.",
  example: "top-up balance exhausted: 5.00 USD needed, 1.20 USD left",
};

export const QUERY_ERROR: ErrorResponse = {
  status: 400,
  when: "A query parameter is unknown, given twice or malformed; the message names it.",
  example: "limit: must be an integer from 1 to 100",
};

export const QUEUE_ERROR: ErrorResponse = {
  status: 503,
  when: "More is waiting to be written than the database keeps up with; nothing was recorded. Try again.",
  example: "too many registrations are waiting, try again",
  headers: { "Retry-After": "Seconds to wait." },
};
