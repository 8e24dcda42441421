/** Mutants of transfers: rows lost, rows duplicated, or storage left open by a move or a restore. */
import type { SourceMutant } from './mutant.ts'

const MOVE = 'tenants/transfers/kinds/move.ts'
const SWITCH = 'tenants/transfers/kinds/cutover.ts'
const MOVES = { tests: ['src/tenants/transfers/kinds/moves.test.ts'] }
const TRANSFERS = { tests: ['src/tenants/transfers/transfers.test.ts'] }

export const TRANSFER_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'a move that closes nothing',
    story: 'Rows that are written during the copy are lost.',
    file: MOVE,
    replace: '    await storage.driver(row.isolation).fence(toLocation(row))\n',
    by: '',
    ...MOVES,
  },
  {
    name: 'a move without a drain',
    story: 'A transaction that started before the fence commits into the tenant’s former storage.',
    file: MOVE,
    replace: '  await storage.driver(closed.isolation).drain(toLocation(closed), { signal: attempt.signal })\n',
    by: '',
    ...MOVES,
  },
  {
    name: 'a move that others may open',
    story: 'The former storage of a tenant that is suspended and activated during a move is opened.',
    file: 'tenants/lifecycle/fences.ts',
    replace: `status === 'active' && heldBy === null`,
    by: `status === 'active'`,
    ...MOVES,
  },
  {
    name: 'what a tenant leaves stays open',
    story: 'A process with a stale cache continues to write to the storage from before a restore.',
    file: SWITCH,
    replace: '    await close(dependencies, attempt, row)\n',
    by: '',
    ...MOVES,
  },
  {
    name: 'a suspended tenant restored open',
    story: 'New storage of a suspended tenant accepts statements.',
    file: SWITCH,
    replace: `    if (row.status === 'suspended') await driver.fence(location)\n`,
    by: '',
    ...TRANSFERS,
  },
  {
    name: 'a switch by an abandoned attempt',
    story: 'An abandoned attempt switches the tenant to its storage.',
    file: SWITCH,
    replace: '    await attempt.hold()\n    if (row.status',
    by: '    if (row.status',
    ...MOVES,
  },
]
