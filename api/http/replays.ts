import type { RequestContext } from "./requestContext.ts";

/** The header of a response to a write that was done before. */
export const REPLAY_HEADER = {
  "Idempotent-Replayed": "`true` if an earlier request created the record.",
};

/** Sets the header if an earlier request did the write. */
export const markReplay = (
  ctx: RequestContext,
  { replayed }: { readonly replayed: boolean },
): void => {
  if (replayed) {
    ctx.set("Idempotent-Replayed", "true");
  }
};
