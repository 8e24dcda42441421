/** A value of plain data that nobody can change, all the way down. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const member of Object.values(Object.freeze(value))) deepFreeze(member)
  }
  return value
}
