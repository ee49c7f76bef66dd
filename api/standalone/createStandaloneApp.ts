import type Koa from "koa";
import type { ApiState } from "../http/apiContext.ts";
import { createApp } from "../http/createApp.ts";
import type { AppDependencies } from "../http/createApp.ts";
import { healthEndpoints } from "../health/healthEndpoints.ts";
import type { HealthChecks } from "../health/healthEndpoints.ts";
import type { Authenticate } from "../../services/createAuthenticator.ts";
import { registrationEndpoints } from "./registrations/registrationEndpoints.ts";

/** The organizations' interface. */
export const createStandaloneApp = ({
  checks,
  authenticator,
  logger,
  observe,
  ...dependencies
}: AppDependencies &
  Parameters<typeof registrationEndpoints>[0] & {
    readonly checks: HealthChecks;
    readonly authenticator: Authenticate;
  }): Koa<ApiState> =>
  createApp({
    logger,
    observe,
    authenticator,
    presentError: (_status, message) => ({ error: message }),
    endpoints: [...registrationEndpoints(dependencies), ...healthEndpoints(checks)],
  });
