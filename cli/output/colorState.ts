import { styleText } from "node:util";
import type { Io } from "../io.ts";

/** The words for states that an operator looks for. */
const COLORS = new Map([
  ...["failed", "wrong", "refused", "too old", "unclear", "contradiction"].map(
    (word) => [word, "red"] as const,
  ),
  ...["late", "warning", "waiting", "difference", "credit owed", "in trouble"].map(
    (word) => [word, "yellow"] as const,
  ),
  ...["ok", "delivered"].map((word) => [word, "green"] as const),
]);

/** Colors a state on a terminal, unless NO_COLOR is set. Other texts are returned as they are. */
export const colorState = (text: string, stream: Io["stdout"]): string => {
  const color = COLORS.get(text);
  return color === undefined ? text : styleText(color, text, { stream });
};
