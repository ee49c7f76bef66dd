import { z } from "zod";
import { plantingReport } from "../../modules/planting/fact.rules.ts";
import { ORDER_NOT_FOUND } from "../../modules/planting/order.rules.ts";
import { reportPlanting } from "../../modules/planting/recordPlantingFacts.ts";
import type { Context } from "../../runtime/context.ts";
import { publicEndpoint, RETRY_AFTER } from "../http/endpoint.ts";
import type { Description, Endpoint } from "../http/endpoint.ts";
import { HttpError } from "../http/httpError.ts";
import { parseRequest } from "../http/parseRequest.ts";
import { findSignatureProblem } from "../http/signatures.ts";

const callbackResponse = z
  .strictObject({
    order: z.string(),
    results: z.array(
      z
        .strictObject({
          stage: z.string(),
          outcome: z.enum(["accepted", "repeated", "waiting", "contradiction", "withdrawn"]),
          reason: z.string().nullable(),
        })
        .meta({ id: "PlantingCallbackOutcome" }),
    ),
  })
  .meta({ id: "PlantingCallbackResult" });

const ORDER = "po_0198c5df2b6a7d10b7c1a2d3e4f50617";

const DESCRIPTION: Description = {
  operationId: "reportPlanting",
  tag: "planting partner",
  summary: "Report facts of a planting order",
  details:
    "For the planting partner. Requests are signed with the header " +
    "`Planting-Signature: t=<unix seconds>,v1=<signature>`. The signature is the hexadecimal HMAC-SHA256 of " +
    "`<t>.<body>` with the shared secret. Reports may be repeated: recorded facts change nothing.",
  requestHeaders: {
    "Planting-Signature": { description: "`t=<unix seconds>,v1=<hexadecimal HMAC-SHA256>`." },
  },
  errors: [
    {
      code: "request_invalid",
      when: "The report is invalid; nothing of it was recorded.",
      example: "facts.0.occurred_at: must be a timestamp such as 2026-05-01T12:00:00Z",
    },
    {
      code: "signature_invalid",
      when: "The signature is missing or wrong.",
      example: "invalid signature",
    },
    {
      code: "record_not_found",
      when: "The planting order does not exist.",
      example: ORDER_NOT_FOUND,
    },
    {
      code: "internal_error",
      when: "Unexpected error. Send the report again.",
      example: "internal server error",
    },
    {
      code: "service_unavailable",
      when:
        "The database cannot be reached, or too many requests are arriving or waiting for it; nothing was recorded. " +
        "Send the report again.",
      example: "the service is temporarily unavailable, try again",
      headers: RETRY_AFTER,
    },
  ],
};

/** The planting partner's callback, which exists only if PLANTING_CALLBACK_SECRET is set. */
export const callbackEndpoint = (context: Context, secrets: readonly string[]): Endpoint =>
  publicEndpoint({
    method: "post",
    path: "/planting/callback",
    description: DESCRIPTION,
    schemas: { body: plantingReport, response: callbackResponse },
    examples: {
      body: {
        order: ORDER,
        facts: [
          {
            stage: "funds_distributed",
            occurred_at: "2026-05-01T12:00:00Z",
            partner_reference: "NCP-2291",
          },
        ],
      },
      response: {
        order: ORDER,
        results: [{ stage: "funds_distributed", outcome: "accepted", reason: null }],
      },
    },
    handle: async (ctx) => {
      const problem = findSignatureProblem(ctx.get("Planting-Signature"), {
        secrets,
        // Without a body the signature covers the empty one.
        body: typeof ctx.request.rawBody === "string" ? ctx.request.rawBody : "",
        now: context.clock.now(),
      });
      if (problem !== null) {
        throw new HttpError("signature_invalid", problem);
      }
      const report = parseRequest(plantingReport, ctx.request.body, "field");
      const recorded = await reportPlanting(context, report, "callback");
      return { order: report.order, results: [...recorded] };
    },
  });
