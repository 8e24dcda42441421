/** Dialog: removes the client secret; the other settings stay. */
import type { Result } from '../../../console/api/contract.ts'
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import { text } from './text.ts'

type Target = Result<'sso.get'> & { readonly id: string }

export default function RemoveSecret({ target, onClose }: ActionProps<Target>) {
  const { id, clientSecretSet: _, ...settings } = target
  const input = { params: { id }, body: { ...settings, clientSecret: null } }
  const remove = useAction('sso.update', { done: text.removed, onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.removeTitle}
      confirm={text.removeSecret}
      isRunning={remove.isRunning}
      problem={remove.problem}
      call={{ name: 'sso.update', input }}
      onConfirm={() => remove.run(input)}
      onClose={onClose}
    >
      <p>{text.removeText}</p>
    </Confirm>
  )
}
