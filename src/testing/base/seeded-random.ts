/** Pseudo-random numbers that a seed determines, so that a failed run can be repeated. */

export interface Random {
  /** Integer from 0 to `limit` - 1. */
  below(limit: number): number
  pick<T>(from: readonly T[]): T
  /** One element, in proportion to its `weight`. */
  weighted<T extends { readonly weight: number }>(from: readonly T[]): T
}

/** @param seed 32-bit integer (mulberry32). */
export function seededRandom(seed: number): Random {
  let state = seed | 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(next() * limit)
  const at = <T>(from: readonly T[], index: number): T => {
    const found = from[index]
    if (found === undefined) throw new Error('nothing to choose from')
    return found
  }
  return {
    below,
    pick: (from) => at(from, below(from.length)),
    weighted(from) {
      let left = next() * from.reduce((sum, { weight }) => sum + weight, 0)
      const index = from.findIndex(({ weight }) => {
        left -= weight
        return left < 0
      })
      return at(from, index < 0 ? from.length - 1 : index)
    },
  }
}
