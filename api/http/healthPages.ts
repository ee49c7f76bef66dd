import type { Readiness } from "../../runtime/server/watchHealth.ts";
import type { Page } from "./createApp.ts";

/**
 * `/healthz`: the process responds. `/readyz`: so do the services it depends on, as of the latest check.
 * @param readReadiness returns at once, so that a probe's timeout says something about this process only
 */
export const healthPages = (readReadiness: () => Readiness): readonly Page[] => [
  {
    path: "/healthz",
    run: (ctx) => {
      ctx.body = { status: "ok" };
    },
  },
  {
    path: "/readyz",
    run: (ctx) => {
      const readiness = readReadiness();
      ctx.status = readiness.status === "ok" ? 200 : 503;
      ctx.body = readiness;
    },
  },
];
