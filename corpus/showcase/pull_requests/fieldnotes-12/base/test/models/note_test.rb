require "test_helper"

class NoteTest < ActiveSupport::TestCase
  test "needs a title" do
    note = Note.new(user: ada, walked_on: Date.current)
    assert_not note.valid?
    assert_includes note.errors.attribute_names, :title
  end

  test "photos are the observations with a picture" do
    assert_equal [heron], marsh.photos
  end
end
