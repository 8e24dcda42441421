/** Dialog: deletes the value of a secret. It cannot be undone, because the console does not know the value. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import { paramsOf, type Target } from './setting.ts'
import { text } from './text.ts'

export default function DeleteSecret({ target, onClose }: ActionProps<Target>) {
  const { name } = target
  const input = { params: paramsOf(target) }
  const remove = useAction('settings.delete', { done: text.resetDone(name), onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.resetTitle(name)}
      confirm={text.reset}
      isRunning={remove.isRunning}
      problem={remove.problem}
      call={{ name: 'settings.delete', input }}
      onConfirm={() => remove.run(input)}
      onClose={onClose}
    >
      <p>{text.resetText}</p>
    </Confirm>
  )
}
