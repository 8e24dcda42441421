/** Dialog: disables single sign-on of a tenant. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import { text } from './text.ts'

export default function Disable({ target: { id }, onClose }: ActionProps<{ id: string }>) {
  const input = { params: { id }, body: {} }
  const disable = useAction('sso.disable', { done: text.disabled, onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.disableTitle(id)}
      word={id}
      confirm={text.disable}
      isRunning={disable.isRunning}
      problem={disable.problem}
      call={{ name: 'sso.disable', input }}
      onConfirm={() => disable.run(input)}
      onClose={onClose}
    >
      <p>{text.disableText}</p>
    </Confirm>
  )
}
