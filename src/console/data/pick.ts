/** Members of an object. A member that the object lacks is left out. */
export const pick = (
  object: Readonly<Record<string, unknown>>,
  members: readonly string[],
): Readonly<Record<string, unknown>> =>
  Object.fromEntries(members.filter((member) => member in object).map((member) => [member, object[member]]))
