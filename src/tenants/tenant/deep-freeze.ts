/** Freezes a value of plain data recursively. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const member of Object.values(Object.freeze(value))) deepFreeze(member)
  }
  return value
}
