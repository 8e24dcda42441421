/** Dialog: sets a setting of a tenant. */
import { Dialog } from '../../../console/components/dialog.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import { paramsOf, parsedValue, type Target, textOf } from './setting.ts'
import { text } from './text.ts'

export default function SetValue({ target, onClose }: ActionProps<Target>) {
  const { name, isSecret, value } = target
  const set = useAction('settings.set', {
    done: text.saved(name),
    onDone: onClose,
    showsProblem: true,
    isSecret,
  })
  return (
    <Dialog title={text.setTitle(name)} onClose={onClose}>
      <Form
        operation="settings.set"
        submit={text.save}
        isRunning={set.isRunning}
        problem={set.problem}
        onCancel={onClose}
        onSubmit={({ value: typed }) =>
          set.run({ params: paramsOf(target), body: { value: parsedValue(String(typed)) } })
        }
      >
        <Field
          name="value"
          label={text.value}
          hint={isSecret ? text.secretHint : text.valueHint}
          as={isSecret ? 'password' : 'textarea'}
          defaultValue={isSecret ? '' : textOf(value)}
          autoFocus
        />
      </Form>
    </Dialog>
  )
}
