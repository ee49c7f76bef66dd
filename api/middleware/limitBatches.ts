import type { Middleware } from "koa";
import { createPlaces } from "../../program/server/createPlaces.ts";
import { withoutPlace } from "../../program/server/limitConcurrency.ts";
import { callerOf } from "../http/requestContext.ts";
import type { ApiState } from "../http/requestContext.ts";

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
