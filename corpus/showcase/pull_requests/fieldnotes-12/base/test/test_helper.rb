ENV["RAILS_ENV"] ||= "test"
require_relative "../config/environment"
require "rails/test_help"

class ActiveSupport::TestCase
  PASSWORD = "secret-for-tests"

  attr_reader :ada, :ben, :marsh, :ridge, :heron

  setup do
    @ada = User.create!(email: "ada@example.org", password: PASSWORD)
    @ben = User.create!(email: "ben@example.org", password: PASSWORD)
    @marsh = ada.notes.create!(title: "Marsh", walked_on: "2024-02-18")
    @ridge = ben.notes.create!(title: "Ridge", walked_on: "2024-02-25")
    @heron = marsh.observations.create!(species: "Grey heron", photo_url: "/photos/1.jpg")
    marsh.observations.create!(species: "Teal", count: 14)
  end
end

class ActionDispatch::IntegrationTest
  def sign_in(user)
    post session_path, params: { email: user.email, password: PASSWORD }
  end
end
