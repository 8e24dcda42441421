import { expect, test } from 'vitest'
import { type Action, decide, MOVES, type Move, STATUSES, type Status } from './lifecycle.ts'

/**
 * The contract's table: the target status of each action from each status; `=` is a repeated action, `-` a rejection.
 */
const LIFE = `
               activate      suspend    delete   restore  install  fail
 provisioning  -             -          deleted  -        active   failed
 active        =             suspended  deleted  -        -        -
 suspended     active        =          deleted  -        -        -
 failed        provisioning  -          deleted  -        -        -
 deleted       -             -          =        before   -        -
`

const [header = [], ...lines] = LIFE.trim()
  .split('\n')
  .map((line) => line.trim().split(/\s+/))
const cells = lines.flatMap(([status, ...outcomes]) =>
  outcomes.map((outcome, column) => [status as Status, header[column] as Action, outcome] as const),
)
const moves = Object.values(MOVES).flatMap((from) => Object.values(from) as Move[])

test('the table contains every status and every action', () => {
  expect(lines.map(([status]) => status)).toEqual([...STATUSES])
  expect([...header].sort()).toEqual(Object.keys(MOVES).sort())
  expect(cells).toHaveLength(STATUSES.length * Object.keys(MOVES).length)
})

test.each(cells)('status %s, action %s: %s', (status, action, outcome) => {
  const decided = decide(status, action)
  if (outcome === '=') expect(decided).toBe('repeat')
  else if (outcome === '-') expect(decided).toBe('rejected')
  else expect(decided).toMatchObject({ move: { to: outcome } })
})

test('each transition publishes one event, except the restart of an installation, whose end publishes one', () => {
  for (const { to, event, installs } of moves) {
    expect(event === undefined, to).toBe(installs === true)
  }
  const eventOf = (status: Status, action: Action) => MOVES[action][status]?.event?.name
  expect(eventOf('provisioning', 'install')).toBe('TenantProvisioned')
  expect(eventOf('provisioning', 'fail')).toBe('TenantProvisioningFailed')
  expect(eventOf('suspended', 'activate')).toBe('TenantActivated')
  expect(eventOf('active', 'suspend')).toBe('TenantSuspended')
  expect(eventOf('deleted', 'restore')).toBe('TenantRestored')
  for (const status of ['provisioning', 'active', 'suspended', 'failed'] as const) {
    expect(eventOf(status, 'delete')).toBe('TenantDeleted')
  }
})

test('only a transition to provisioning installs', () => {
  for (const { to, installs } of moves) expect(installs === true).toBe(to === 'provisioning')
})
