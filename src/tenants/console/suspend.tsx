/** Dialog: suspends a tenant. */
import { Confirm } from '../../console/components/confirm.tsx'
import { runAction, useAction } from '../../console/data/queries.ts'
import type { ActionProps } from '../../console/module.ts'
import type { Tenant } from './base/tenant.ts'
import { text } from './base/text.ts'

export default function Suspend({ target: { id, name }, onClose }: ActionProps<Tenant>) {
  const input = { params: { id } }
  const suspend = useAction('tenants.suspend', {
    done: text.suspended(name),
    undo: () => runAction('tenants.activate', input, { done: text.activated(name) }),
    onDone: onClose,
    showsProblem: true,
  })
  return (
    <Confirm
      title={text.suspendTitle(name)}
      word={id}
      confirm={text.suspend}
      isRunning={suspend.isRunning}
      problem={suspend.problem}
      call={{ name: 'tenants.suspend', input }}
      onConfirm={() => suspend.run(input)}
      onClose={onClose}
    >
      <p>{text.suspendText}</p>
    </Confirm>
  )
}
