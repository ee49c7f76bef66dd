import { z } from "zod";
import { publicEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";

/** Reject when the dependency does not answer; they bound their own time. */
export type HealthChecks = {
  readonly database: () => Promise<unknown>;
  readonly temporal: () => Promise<unknown>;
};

const liveReply = z.strictObject({ status: z.literal("ok") }).meta({ id: "Liveness" });
const ALIVE: z.output<typeof liveReply> = { status: "ok" };

const part = z.enum(["ok", "unreachable"]);
const readyReply = z
  .strictObject({
    status: z.enum(["ok", "unavailable"]),
    database: part,
    temporal: part.meta({
      description:
        "Registrations are accepted while it is unreachable; what follows from them waits.",
    }),
  })
  .meta({ id: "Readiness" });
type Ready = z.output<typeof readyReply>;

const outcomeOf = (check: () => Promise<unknown>): Promise<Ready["database"]> =>
  check().then(
    () => "ok",
    () => "unreachable",
  );

const readiness = async ({ database, temporal }: HealthChecks): Promise<Ready> => {
  const [ofDatabase, ofTemporal] = await Promise.all([outcomeOf(database), outcomeOf(temporal)]);
  return {
    status: ofDatabase === "ok" ? "ok" : "unavailable",
    database: ofDatabase,
    temporal: ofTemporal,
  };
};

/** `/healthz`: the process answers. `/readyz`: what it depends on does too. */
export const healthEndpoints = (checks: HealthChecks): readonly Endpoint[] => {
  // Anybody may ask, as often as they like: those who ask at the same time share one look.
  let looking: Promise<Ready> | null = null;
  return [
    publicEndpoint({
      method: "get",
      path: "/healthz",
      description: {
        operationId: "health",
        tag: "operations",
        summary: "Whether the process is alive",
        refusals: [],
      },
      schemas: { reply: liveReply },
      examples: { reply: ALIVE },
      handle: () => Promise.resolve(ALIVE),
    }),
    publicEndpoint({
      method: "get",
      path: "/readyz",
      description: {
        operationId: "readiness",
        tag: "operations",
        summary: "Whether requests can be served, and which dependency answers",
        otherReplies: { 503: "The database is unreachable." },
        refusals: [],
      },
      schemas: { reply: readyReply },
      examples: { reply: { status: "ok", database: "ok", temporal: "ok" } },
      handle: async (ctx) => {
        looking ??= readiness(checks).finally(() => {
          looking = null;
        });
        const ready = await looking;
        ctx.status = ready.status === "ok" ? 200 : 503;
        return ready;
      },
    }),
  ];
};
