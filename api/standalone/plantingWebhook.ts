import { plantingReport } from "../../modules/planting/fact.rules.ts";
import { recordPlantingFacts } from "../../modules/planting/recordPlantingFacts.ts";
import type { Context } from "../../runtime/context.ts";
import type { Webhook } from "../http/createApp.ts";
import { HttpError } from "../http/httpError.ts";
import { parseRequest } from "../http/parseRequest.ts";
import { BODY_KIB, parseSignedJson, readRawBody } from "../http/readBody.ts";
import { findSignatureProblem } from "../http/signatures.ts";

/** Receives the planting partner's reports of facts. It exists only if PLANTING_CALLBACK_SECRET is set. */
export const plantingWebhook = (context: Context, secrets: readonly string[]): Webhook => ({
  path: "/planting/callback",
  run: async (ctx) => {
    const body = await readRawBody(ctx, BODY_KIB);
    const now = context.clock.now();
    const problem = findSignatureProblem(ctx.get("Planting-Signature"), { secrets, body, now });
    if (problem !== null) {
      throw new HttpError("signature_invalid", problem);
    }
    const { order, facts } = parseRequest(plantingReport, parseSignedJson(body), "field");
    const results = await recordPlantingFacts(context, order, facts, "callback");
    ctx.body = { order, results };
  },
});
