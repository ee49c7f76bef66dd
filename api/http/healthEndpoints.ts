import { z } from "zod";
import type { Readiness } from "../../runtime/server/watchHealth.ts";
import type { Endpoint } from "./endpoint.ts";

const liveResponse = z.strictObject({ status: z.literal("ok") }).meta({ id: "Liveness" });
const ALIVE: z.output<typeof liveResponse> = { status: "ok" };

const part = z.enum(["ok", "unreachable"]);
const readyResponse = z
  .strictObject({
    status: z.enum(["ok", "unavailable", "stopping"]).meta({
      description:
        "`stopping`: the process still serves requests, but will soon close its connections; send new requests elsewhere.",
    }),
    database: part,
    clock: z.enum(["ok", "off", "unknown"]).meta({
      description:
        "`off`: this machine's clock differs from the database's by more than 2 seconds, so usage could be billed in another period. `unknown`: the database is unreachable.",
    }),
    temporal: part.meta({
      description:
        "While Temporal is unreachable, registrations are accepted; billing and planting wait.",
    }),
  })
  .meta({ id: "Readiness" });

/**
 * `/healthz`: the process responds. `/readyz`: so do the services it depends on, as of the latest check.
 * @param readReadiness returns at once, so that a probe's timeout says something about this process only
 */
export const healthEndpoints = (readReadiness: () => Readiness): readonly Endpoint[] => [
  {
    method: "get",
    path: "/healthz",
    access: "public",
    description: {
      operationId: "health",
      tag: "operations",
      summary: "Check that the process is alive",
    },
    schemas: { response: liveResponse },
    run: (ctx) => {
      ctx.body = ALIVE;
    },
  },
  {
    method: "get",
    path: "/readyz",
    access: "public",
    description: {
      operationId: "readiness",
      tag: "operations",
      summary: "Check that requests can be served, and which dependencies respond",
      errors: {
        service_unavailable:
          "The database is unreachable, the clock is off, or the process is stopping.",
      },
      errorBodies: { service_unavailable: readyResponse },
    },
    schemas: { response: readyResponse },
    run: (ctx) => {
      const readiness: z.output<typeof readyResponse> = readReadiness();
      ctx.status = readiness.status === "ok" ? 200 : 503;
      ctx.body = readiness;
    },
  },
];
