/** Whether a refund does not say what to refund, for which the contract has words of its own. */
export const isBlankId = (body: unknown): boolean =>
  typeof body === "object" &&
  body !== null &&
  !Array.isArray(body) &&
  (!("id" in body) || body.id === null || body.id === "");
