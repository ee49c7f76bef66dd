import type { Logger } from "pino";
import type { Config } from "../runtime/config/config.ts";
import { interactiveQueue } from "../runtime/temporalNames.rules.ts";
import type { awaitDeploymentName } from "./awaitDeploymentName.ts";
import { bundleWorkflows } from "./bundleWorkflows.ts";
import { createNamespaceLog, runWorker } from "./runWorker.ts";

type DeploymentName = ReturnType<typeof awaitDeploymentName>;

/** Returns what runs parts of the worker in Temporal, unless it is stopped before the deployment's name there is decided. */
export const createRunners = (
  deployment: DeploymentName,
  { config, logger }: { readonly config: Config; readonly logger: Logger },
  signal: AbortSignal,
) => {
  const workflowBundle = bundleWorkflows(config.WORKFLOW_BUNDLE);
  const logMissingNamespace = createNamespaceLog(logger);
  const whenNamed = async (
    run: (named: NonNullable<Awaited<DeploymentName>>) => Promise<void>,
  ): Promise<void> => {
    // `failed` reports the error.
    const named = await deployment.catch(() => null);
    await (named === null ? undefined : run(named));
  };
  const runQueue = (queueOf: (deployment: string) => string, activities: object): Promise<void> =>
    whenNamed(({ name, identity }) =>
      runWorker(
        {
          identity,
          activities,
          taskQueue: queueOf(name),
          hasLongTasks: queueOf === interactiveQueue,
          workflowBundle,
          logger,
          logMissingNamespace,
        },
        signal,
      ),
    );
  return { whenNamed, runQueue };
};
