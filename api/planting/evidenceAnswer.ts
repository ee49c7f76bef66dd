import { hash } from "node:crypto";
import { z } from "zod";
import { EVIDENCE_STAGES } from "../../domain/planting/treeEvidence.ts";
import { EVIDENCE_CACHE_SECONDS } from "../../services/planting/readTreeEvidence.ts";
import type { ApiContext } from "../http/apiContext.ts";

/*
 * What evidence is over HTTP, on both interfaces.
 */

export const STAGE_MUST_BE = `must be one of ${EVIDENCE_STAGES.join(", ")}`;

/** The stage to pretend. */
export const evidenceStage = () => z.enum(EVIDENCE_STAGES, { error: STAGE_MUST_BE }).optional();

/** For the description: what keeping an answer goes by. */
export const KEEPING_HEADERS = {
  ETag: "Names this text; send it as If-None-Match to be answered 304 while nothing has changed.",
  "Cache-Control": "How long the answer may be kept.",
  Age: "Seconds since the answer was first given.",
};

/** The same where a stage may be pretended. */
export const STAGE_HEADERS = {
  ...KEEPING_HEADERS,
  "Evidence-Simulated": "`true` when evidence_stage was given.",
};

/** Lets clients keep an answer for what is left of its time: what it has lived through already stands in `Age`. */
const allowKeeping = (ctx: ApiContext, storedAt: Date, now: Date): void => {
  ctx.set("Cache-Control", `private, max-age=${EVIDENCE_CACHE_SECONDS}`);
  const ageMs = Math.max(0, now.getTime() - storedAt.getTime());
  ctx.set("Age", String(Math.floor(ageMs / 1000)));
};

/**
 * Tells a client what the evidence that it is given may be used for.
 * @param evidence.keyHeaders the request's headers that carry a key: every key has its own answers
 * @param evidence.isLasting whether the answer stays the same for its time, to be kept without asking
 */
export const setEvidenceHeaders = (
  ctx: ApiContext,
  evidence: {
    readonly body: string;
    readonly keyHeaders: string;
    readonly isSimulated: boolean;
    readonly isLasting: boolean;
    readonly storedAt: Date;
    readonly now: Date;
  },
): void => {
  if (evidence.isSimulated) {
    ctx.set("Evidence-Simulated", "true");
    ctx.set("Cache-Control", "no-store");
    return;
  }
  ctx.status = 200;
  ctx.vary(evidence.keyHeaders);
  ctx.etag = hash("sha256", evidence.body, "base64url");
  if (evidence.isLasting) {
    allowKeeping(ctx, evidence.storedAt, evidence.now);
  } else {
    ctx.set("Cache-Control", "private, no-cache");
  }
};
