/** A value of plain data that nobody can change, all the way down. */
export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const member of Object.values(Object.freeze(value))) frozen(member)
  }
  return value
}
