import { hash } from "node:crypto";
import type { CachedResponse } from "../../modules/planting/cachedResponses.sql.ts";
import { oneOf } from "../../runtime/describeIssues.rules.ts";
import { EVIDENCE_STAGES } from "../../modules/planting/timeline.rules.ts";
import { EVIDENCE_CACHE_SECONDS } from "../../modules/planting/cacheEvidence.ts";
import type { RequestContext } from "../http/requestContext.ts";

/*
 * The parameter and the headers that evidence has on both interfaces.
 */

/** The stage to simulate. */
export const evidenceStage = () => oneOf(EVIDENCE_STAGES).optional();

/** The headers of all evidence. */
export const EVIDENCE_HEADERS = {
  ETag: "Identifies this content. Send it as If-None-Match to get a 304 while nothing has changed.",
  "Cache-Control": "How long the response may be cached.",
  Age: "Seconds since the response was generated.",
  "Evidence-Simulated":
    "`true` if the response is simulated in whole or in part: no trees are planted for it.",
};

/** Sets the headers of a response to `evidence_stage`. */
export const setStageHeaders = (ctx: RequestContext): void => {
  ctx.set("Evidence-Simulated", "true");
  ctx.set("Cache-Control", "no-store");
};

type EvidenceResponse = CachedResponse & { readonly isSimulated: boolean };

/** By response, because a process returns the same one many times. */
const tags = new WeakMap<CachedResponse, string>();

const tagOf = (response: CachedResponse): string => {
  const known = tags.get(response);
  if (known !== undefined) {
    return known;
  }
  const tag = `"${hash("sha256", response.body, "base64url")}"`;
  tags.set(response, tag);
  return tag;
};

/**
 * Returns the headers by which clients cache evidence, except its age, and the mark of simulated evidence.
 * @param isLasting clients may cache the response for 30 days, less its age; otherwise they must revalidate it
 */
export const cacheHeaders = (
  response: EvidenceResponse,
  isLasting: boolean,
): Readonly<Record<string, string>> => ({
  ETag: tagOf(response),
  "Cache-Control": isLasting ? `private, max-age=${EVIDENCE_CACHE_SECONDS}` : "private, no-cache",
  ...(response.isSimulated ? { "Evidence-Simulated": "true" } : {}),
});

/** Returns the header `Age` of a lasting response. */
export const ageOf = ({ storedAt }: CachedResponse, now: Date): string =>
  String(Math.floor(Math.max(0, now.getTime() - storedAt.getTime()) / 1000));

/** Sets the headers of evidence. */
export const setCacheHeaders = (
  ctx: RequestContext,
  response: EvidenceResponse,
  { isLasting, now }: { readonly isLasting: boolean; readonly now: Date },
): void => {
  ctx.status = 200;
  ctx.set(cacheHeaders(response, isLasting));
  if (isLasting) {
    ctx.set("Age", ageOf(response, now));
  }
};
