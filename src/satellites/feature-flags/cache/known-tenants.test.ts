import fc from 'fast-check'
import { expect, test } from 'vitest'
import { KnownTenants } from './known-tenants.ts'

const newcomer = (id = '') => ({ id, entries: new Set<number>(), wasRequested: true })

test('requested tenants stay, and of the others the oldest is evicted', () => {
  const tenants = new KnownTenants<ReturnType<typeof newcomer>>({ tenants: 3, flags: 100 })
  const known = () => [...tenants.all()].map(({ id }) => id)
  for (const id of ['a', 'b', 'c', 'd']) tenants.add(id, newcomer(id))
  expect(known()).toEqual(['b', 'c', 'd']) // all were requested, so it was the oldest
  tenants.get('b')
  tenants.add('e', newcomer('e'))
  expect(known()).toEqual(['d', 'e', 'b'])
})

test('the limit holds, and the newest tenant is cached', () => {
  const step = fc.record({
    id: fc.integer({ min: 0, max: 30 }),
    flags: fc.integer({ min: 0, max: 5 }),
    asked: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const max = { tenants: 10, flags: 25 }
      const tenants = new KnownTenants<ReturnType<typeof newcomer>>(max)
      for (const { id, flags, asked } of steps) {
        const known = tenants.get(`${id}`) ?? newcomer()
        if (!tenants.get(`${id}`)) tenants.add(`${id}`, known)
        for (let n = 0; n < flags; n++) {
          const before = known.entries.size
          known.entries.add(before % 20)
          if (known.entries.size > before) tenants.grown(`${id}`, known, 1)
        }
        if (asked) tenants.get(`${id}`)
        const all = [...tenants.all()]
        expect(all.length).toBeLessThanOrEqual(max.tenants)
        expect(all.reduce((sum, { entries }) => sum + entries.size, 0)).toBeLessThanOrEqual(max.flags)
        expect(tenants.get(`${id}`)).toBe(known)
      }
    }),
  )
})
