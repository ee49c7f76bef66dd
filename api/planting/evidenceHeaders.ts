import { hash } from "node:crypto";
import { z } from "zod";
import type { CachedResponse } from "../../db/planting/cachedResponses.ts";
import { EVIDENCE_STAGES } from "../../domain/planting/timeline.ts";
import { EVIDENCE_CACHE_SECONDS } from "../../services/planting/evidence/cacheEvidence.ts";
import type { ApiContext } from "../http/apiContext.ts";

/*
 * The parameter and the headers that evidence has on both interfaces.
 */

export const STAGE_MUST_BE = `must be one of ${EVIDENCE_STAGES.join(", ")}`;

/** The stage to simulate. */
export const evidenceStage = () => z.enum(EVIDENCE_STAGES, { error: STAGE_MUST_BE }).optional();

/** The headers of all evidence. */
export const EVIDENCE_HEADERS = {
  ETag: "Identifies this content. Send it as If-None-Match to get a 304 while nothing has changed.",
  "Cache-Control": "How long the response may be cached.",
  Age: "Seconds since the response was generated.",
  "Evidence-Simulated":
    "`true` if the response is simulated in whole or in part: no trees are planted for it.",
};

/** Sets the headers of a response to `evidence_stage`. */
export const setStageHeaders = (ctx: ApiContext): void => {
  ctx.set("Evidence-Simulated", "true");
  ctx.set("Cache-Control", "no-store");
};

/** By response, because a process returns the same one many times. */
const etags = new WeakMap<CachedResponse, string>();

const etagOf = (response: CachedResponse): string => {
  const known = etags.get(response);
  if (known !== undefined) {
    return known;
  }
  const etag = hash("sha256", response.body, "base64url");
  etags.set(response, etag);
  return etag;
};

/**
 * Sets the headers by which clients cache evidence, and the mark of simulated evidence.
 * @param options.isLasting clients may cache the response for 30 days, less its age; otherwise they must revalidate it
 */
export const setCacheHeaders = (
  ctx: ApiContext,
  response: CachedResponse & { readonly isSimulated: boolean },
  { isLasting, now }: { readonly isLasting: boolean; readonly now: Date },
): void => {
  ctx.status = 200;
  ctx.etag = etagOf(response);
  if (response.isSimulated) {
    ctx.set("Evidence-Simulated", "true");
  }
  if (!isLasting) {
    ctx.set("Cache-Control", "private, no-cache");
    return;
  }
  ctx.set("Cache-Control", `private, max-age=${EVIDENCE_CACHE_SECONDS}`);
  const ageMs = Math.max(0, now.getTime() - response.storedAt.getTime());
  ctx.set("Age", String(Math.floor(ageMs / 1000)));
};
