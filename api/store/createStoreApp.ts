import type Koa from "koa";
import type { PresentError } from "../../program/startServer.ts";
import type { Authenticate } from "../../services/createAuthenticator.ts";
import type { HealthChecks } from "../health/healthEndpoints.ts";
import { healthEndpoints } from "../health/healthEndpoints.ts";
import type { ApiState } from "../http/apiContext.ts";
import { createApp } from "../http/createApp.ts";
import type { AppDependencies } from "../http/createApp.ts";
import { authenticate } from "../middleware/authenticate.ts";

/** The code that says a status in words; endpoints with codes of their own bring them with their refusals. */
const codeOf = (status: number): string => {
  switch (status) {
    case 404:
      return "NOT_FOUND";
    case 405:
      return "METHOD_NOT_ALLOWED";
    case 500:
      return "INTERNAL_ERROR";
    default:
      return "INVALID_PARAMETER";
  }
};

/** An error as this interface tells it. */
export const presentStoreError: PresentError = (status, message) => ({
  error: message,
  code: codeOf(status),
});

/** The store platforms' interface. */
export const createStoreApp = ({
  checks,
  authenticator,
  logger,
  observe,
}: AppDependencies & {
  readonly checks: HealthChecks;
  readonly authenticator: Authenticate;
}): Koa<ApiState> =>
  createApp({
    logger,
    observe,
    checkKey: authenticate(authenticator),
    presentError: presentStoreError,
    endpoints: healthEndpoints(checks),
  });
