import { hash } from "node:crypto";
import { z } from "zod";
import type { CachedResponse } from "../../db/planting/cachedResponses.ts";
import { EVIDENCE_STAGES } from "../../domain/planting/timeline.ts";
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
  "Cache-Control":
    "How long the response may be used without asking again: some minutes once nothing is expected to change.",
  "Evidence-Simulated":
    "`true` if the response is simulated in whole or in part: no trees are planted for it.",
};

/** Sets the headers of a response to `evidence_stage`. */
export const setStageHeaders = (ctx: ApiContext): void => {
  ctx.set("Evidence-Simulated", "true");
  ctx.set("Cache-Control", "no-store");
};

/** Limits how long clients show evidence that was withdrawn. After that, its ETag makes asking again cheap. */
const LASTING_SECONDS = 5 * 60;

/**
 * Sets the headers by which clients cache evidence, and the mark of simulated evidence.
 * @param isLasting clients may use the response for some minutes without asking; otherwise they must revalidate it
 */
export const setCacheHeaders = (
  ctx: ApiContext,
  { body, isSimulated }: Pick<CachedResponse, "body"> & { readonly isSimulated: boolean },
  isLasting: boolean,
): void => {
  ctx.status = 200;
  ctx.etag = hash("sha256", body, "base64url");
  if (isSimulated) {
    ctx.set("Evidence-Simulated", "true");
  }
  ctx.set(
    "Cache-Control",
    isLasting ? `private, max-age=${LASTING_SECONDS}, must-revalidate` : "private, no-cache",
  );
};
