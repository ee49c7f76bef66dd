/**
 * Returns the name of a workflow, a schedule or a task queue in Temporal. Several deployments may share a namespace, so
 * each name starts with the deployment's.
 */
export const inDeployment = (deployment: string, name: string): string => `${deployment}/${name}`;
