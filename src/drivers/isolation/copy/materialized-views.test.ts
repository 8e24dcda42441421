import fc from 'fast-check'
import { expect, test } from 'vitest'
import { inOrder, type View } from './materialized-views.ts'

const view = (id: number, reads: readonly number[], isMaterialized = true): View => ({
  id: String(id),
  name: `v${id}`,
  isMaterialized,
  reads: reads.map(String),
})

test('inOrder puts each view after the views that it reads', () => {
  const views = [view(1, [2, 9]), view(2, [3], false), view(3, [4], false), view(4, [5]), view(5, [])]
  expect(inOrder(views).map(({ name }) => name)).toEqual(['v5', 'v4', 'v1'])
})

test('inOrder does not depend on the names and numbers of views', () => {
  // A view reads only later ones, so that there is no cycle; then the views are shuffled.
  const graph = fc
    .array(fc.tuple(fc.boolean(), fc.array(fc.nat(11), { maxLength: 4 })), { minLength: 1, maxLength: 12 })
    .map((all) =>
      all.map(([isMaterialized, reads], id) =>
        view(
          id,
          reads.filter((read) => read > id && read < all.length),
          isMaterialized,
        ),
      ),
    )
    .chain((views) => fc.shuffledSubarray(views, { minLength: views.length }))
  fc.assert(
    fc.property(graph, (views) => {
      const ordered = inOrder(views)
      expect(ordered.length).toBe(views.filter(({ isMaterialized }) => isMaterialized).length)
      const reached = (from: View): View[] =>
        from.reads.flatMap((id) => views.filter((one) => one.id === id)).flatMap((one) => [one, ...reached(one)])
      for (const [index, one] of ordered.entries()) {
        for (const read of reached(one).filter(({ isMaterialized }) => isMaterialized)) {
          expect(ordered.indexOf(read)).toBeLessThan(index)
        }
      }
    }),
  )
})
