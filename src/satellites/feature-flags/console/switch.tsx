/** The switch of a flag: executed immediately. */
import { isPermitted } from '../../../console/data/session.ts'
import { editFlag } from './actions.ts'
import type { Flag } from './model.ts'
import { text } from './text.ts'

export function Switch({ flag }: { flag: Flag }) {
  const { enabled, key } = flag
  const isDisabled = !isPermitted('featureFlags.edit')
  return (
    <button
      type="button"
      role="switch"
      className="switch"
      aria-checked={enabled}
      aria-disabled={isDisabled || undefined}
      aria-label={text.switchLabel(key)}
      onClick={isDisabled ? undefined : () => void editFlag(flag, { enabled: !enabled })}
    >
      <i aria-hidden="true" />
      <span aria-hidden="true">{enabled ? text.on : text.off}</span>
    </button>
  )
}
