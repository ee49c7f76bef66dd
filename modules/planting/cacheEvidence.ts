import type { CachedResponse } from "./cachedResponses.sql.ts";
import { storeCachedResponse } from "./cachedResponses.sql.ts";
import type { Context, InTransaction } from "../../runtime/context.ts";

/** The contract's 30 days. */
export const EVIDENCE_CACHE_SECONDS = 30 * 24 * 60 * 60;

/** Renders evidence as the text of a response. */
export type EvidenceRenderer<Evidence> = (evidence: Evidence, baseUrl: string) => string;

/** Caches the text of a response and returns the valid one, which another process may have stored first. */
export const cacheEvidence = (
  { db, clock }: InTransaction<Context>,
  response: {
    readonly key: string;
    readonly baseUrl: string;
    readonly revision: bigint;
    readonly body: string;
  },
): Promise<CachedResponse> => {
  const storedAt = clock.now();
  return storeCachedResponse(db, {
    ...response,
    storedAt,
    expiresAt: new Date(storedAt.getTime() + EVIDENCE_CACHE_SECONDS * 1000),
  });
};
