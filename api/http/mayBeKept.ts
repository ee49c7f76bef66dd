import type { ApiContext } from "./apiContext.ts";

/** Lets clients keep an answer for what is left of its time: what it has lived through already stands in `Age`. */
export const mayBeKept = (
  ctx: ApiContext,
  {
    storedAt,
    now,
    keptSeconds,
  }: { readonly storedAt: Date; readonly now: Date; readonly keptSeconds: number },
): void => {
  ctx.set("Cache-Control", `private, max-age=${keptSeconds}`);
  const ageMs = Math.max(0, now.getTime() - storedAt.getTime());
  ctx.set("Age", String(Math.floor(ageMs / 1000)));
};
