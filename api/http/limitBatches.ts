import type { Middleware } from "koa";
import { createPlaces } from "./createPlaces.ts";
import { withoutPlace } from "../../runtime/server/limitConcurrency.ts";
import { callerOf } from "./requestContext.ts";
import type { ApiState } from "./requestContext.ts";

/** Each may take some ten megabytes until its response has been read. */
const MAXIMUM_BATCHES = 16;

/** Lets batches wait while this process records too many. */
export const limitBatches = (): Middleware<ApiState> => {
  const places = createPlaces(MAXIMUM_BATCHES);
  return (ctx, next) => {
    ctx.state.arePlacesNeeded = places.areNeeded;
    return withoutPlace(ctx.req, () => places.run(callerOf(ctx).accountId, next));
  };
};
