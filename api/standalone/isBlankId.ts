/** Returns whether a refund names no id, for which the contract has a message. */
export const isBlankId = (body: unknown): boolean =>
  typeof body === "object" &&
  body !== null &&
  !Array.isArray(body) &&
  (!("id" in body) || body.id === null || body.id === "");
