/** Dialog: deletes a tenant. */
import { Confirm } from '../../console/components/confirm.tsx'
import { runAction, useAction } from '../../console/data/queries.ts'
import type { ActionProps } from '../../console/module.ts'
import type { Tenant } from './base/tenant.ts'
import { text } from './base/text.ts'

export default function Delete({ target: { id, name }, onClose }: ActionProps<Tenant>) {
  const input = { params: { id } }
  const remove = useAction('tenants.delete', {
    done: text.deleted(name),
    undo: () => runAction('tenants.restore', input, { done: text.restored(name) }),
    onDone: onClose,
    showsProblem: true,
  })
  return (
    <Confirm
      title={text.deleteTitle(name)}
      word={id}
      confirm={text.delete}
      isRunning={remove.isRunning}
      problem={remove.problem}
      call={{ name: 'tenants.delete', input }}
      onConfirm={() => remove.run(input)}
      onClose={onClose}
    >
      <p>{text.deleteText}</p>
    </Confirm>
  )
}
