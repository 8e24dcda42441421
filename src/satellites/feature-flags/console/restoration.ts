/** Restoration of a flag: its complete state. */
import { pick } from '../../../console/data/pick.ts'
import type { Restoration } from '../../../console/module.ts'

export const restoration: Restoration<'featureFlags.get', 'featureFlags.set'> = {
  kind: 'featureFlag',
  needs: ['featureFlags.get', 'featureFlags.set'],
  read: 'featureFlags.get',
  change: 'featureFlags.set',
  readInput: (id, key) => ({ params: { id, key } }),
  stateOf: (state) => pick(state, ['enabled', 'rolloutPercent', 'bucketKey']),
  changeInput: (id, key, state) => ({ params: { id, key }, body: state }),
}
