/** Dialog: deletes a dead letter. */
import { Confirm } from '../../components/confirm.tsx'
import { useAction } from '../../data/queries.ts'
import type { ActionProps } from '../../module.ts'
import type { DeadLetter } from './dead-letter.ts'
import { text } from './text.ts'

export default function DeleteDeadLetter({ target: { id, queue }, onClose }: ActionProps<DeadLetter>) {
  const input = { params: { deadLetterId: id } }
  const action = useAction('deadLetters.delete', { done: text.deleted, onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.deleteTitle(queue)}
      confirm={text.delete}
      isRunning={action.isRunning}
      problem={action.problem}
      call={{ name: 'deadLetters.delete', input }}
      onConfirm={() => action.run(input)}
      onClose={onClose}
    >
      <p>{text.deleteText}</p>
    </Confirm>
  )
}
