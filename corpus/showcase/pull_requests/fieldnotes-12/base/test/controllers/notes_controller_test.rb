require "test_helper"

class NotesControllerTest < ActionDispatch::IntegrationTest
  setup { sign_in ada }

  test "lists the notes of the member" do
    get notes_path
    assert_response :success
    assert_select "li", text: /Marsh/
  end

  test "a note of somebody else is not found" do
    get note_path(ridge)
    assert_response :not_found
  end

  test "creates a note" do
    assert_difference -> { ada.notes.count } do
      post notes_path, params: { note: { title: "Dunes", walked_on: "2024-03-02" } }
    end
  end
end
