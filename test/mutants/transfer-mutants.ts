/** In the copying of tenants: what is lost, doubled, or left open by a move or a restore. */
import type { SourceMutant } from './mutant.ts'

const MOVE = 'tenants/transfers/kinds/move.ts'
const SWITCH = 'tenants/transfers/kinds/cutover.ts'
const MOVES = { tests: ['src/tenants/transfers/kinds/moves.test.ts'] }
const TRANSFERS = { tests: ['src/tenants/transfers/transfers.test.ts'] }

export const TRANSFER_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'a move that closes nothing',
    story: 'What is written while the copy is made stays behind.',
    file: MOVE,
    replace: '    await storage.driver(row.isolation).fence(toLocation(row))\n',
    by: '',
    ...MOVES,
  },
  {
    name: 'a move that waits for nobody',
    story: 'A transaction that had begun before the fence commits into what the tenant leaves.',
    file: MOVE,
    replace: '  await storage.driver(closed.isolation).drain(toLocation(closed), { signal: attempt.signal })\n',
    by: '',
    ...MOVES,
  },
  {
    name: 'a move that others may open',
    story: 'A tenant that is suspended and activated while it is moved has its old storage opened.',
    file: 'tenants/lifecycle/fences.ts',
    replace: `status === 'active' && heldBy === null`,
    by: `status === 'active'`,
    ...MOVES,
  },
  {
    name: 'what a tenant leaves stays open',
    story: 'A process with a stale cache goes on writing to the storage of before a restore.',
    file: SWITCH,
    replace: '    await close(dependencies, attempt, row)\n',
    by: '',
    ...MOVES,
  },
  {
    name: 'a suspended tenant restored open',
    story: 'New storage of a suspended tenant can be used.',
    file: SWITCH,
    replace: `    if (row.status === 'suspended') await driver.fence(location)\n`,
    by: '',
    ...TRANSFERS,
  },
  {
    name: 'a switch by whoever is late',
    story: 'An attempt that was given up switches the tenant to what it has made.',
    file: SWITCH,
    replace: '    await attempt.hold()\n    if (row.status',
    by: '    if (row.status',
    ...MOVES,
  },
]
