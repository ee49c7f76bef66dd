import type { Middleware } from "koa";
import type { Tracing } from "../../runtime/tracing/tracing.rules.ts";
import type { ApiState } from "./requestContext.ts";

/**
 * Records a span for each request, in the trace that the client's `traceparent` names. It has the route's pattern and
 * nothing that the client sent, because paths, queries, headers and bodies may contain keys and personal data.
 */
export const traceRequests =
  (tracing: Tracing): Middleware<ApiState> =>
  (ctx, next) => {
    const { method } = ctx;
    const { traceparent } = ctx.req.headers;
    return tracing.run(
      method,
      {
        kind: "server",
        parent: typeof traceparent === "string" ? traceparent : null,
        attributes: { "http.request.method": method },
      },
      async (span) => {
        await next();
        const { route, caller } = ctx.state;
        if (route !== undefined) {
          span.rename(`${method} ${route}`);
          span.setAttributes({ "http.route": route });
        }
        span.setAttributes({
          "http.response.status_code": ctx.status,
          ...(caller === undefined ? {} : { "impact.account.id": caller.accountId }),
        });
        if (ctx.status >= 500) {
          span.fail();
        }
      },
    );
  };
